import com.amazon.randomcutforest.config.TransformMethod;
import com.amazon.randomcutforest.parkservices.AnomalyDescriptor;
import com.amazon.randomcutforest.parkservices.ThresholdedRandomCutForest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;

/**
 * Scores rows of doubles (big-endian) from standard input, each before it is learned, and writes two doubles a row:
 * its score and its anomaly grade.
 *
 * <p>Arguments: number of features, random seed, rows in a shingle.
 */
public final class Rcf {
    public static void main(String[] arguments) throws IOException {
        int features = Integer.parseInt(arguments[0]);
        int shingle = Integer.parseInt(arguments[2]);
        ThresholdedRandomCutForest forest =
                ThresholdedRandomCutForest.builder()
                        .dimensions(features * shingle)
                        .shingleSize(shingle)
                        .sampleSize(256)
                        .numberOfTrees(50)
                        .transformMethod(TransformMethod.NORMALIZE)
                        .randomSeed(Long.parseLong(arguments[1]))
                        .build();
        DoubleBuffer rows = ByteBuffer.wrap(System.in.readAllBytes()).asDoubleBuffer();
        int count = rows.remaining() / features;
        ByteBuffer results = ByteBuffer.allocate(2 * count * Double.BYTES);
        for (int i = 0; i < count; i++) {
            double[] row = new double[features]; // a new one each time: the forest may keep it
            rows.get(row);
            // The row's number is its time: real time stamps have gaps and go backwards, and no other detector sees them.
            AnomalyDescriptor said = forest.process(row, i);
            results.putDouble(said.getRCFScore());
            results.putDouble(said.getAnomalyGrade());
        }
        System.out.write(results.array());
        System.out.flush();
    }
}
