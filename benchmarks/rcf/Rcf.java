import com.amazon.randomcutforest.config.TransformMethod;
import com.amazon.randomcutforest.parkservices.ThresholdedRandomCutForest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;

/**
 * Scores rows of doubles (big-endian) from standard input, each before it is learned, and writes a double a row.
 *
 * <p>Arguments: number of features, random seed.
 */
public final class Rcf {
    public static void main(String[] arguments) throws IOException {
        int features = Integer.parseInt(arguments[0]);
        ThresholdedRandomCutForest forest =
                ThresholdedRandomCutForest.builder()
                        .dimensions(features)
                        .shingleSize(1)
                        .sampleSize(256)
                        .numberOfTrees(50)
                        .transformMethod(TransformMethod.NORMALIZE)
                        .randomSeed(Long.parseLong(arguments[1]))
                        .build();
        DoubleBuffer rows = ByteBuffer.wrap(System.in.readAllBytes()).asDoubleBuffer();
        int count = rows.remaining() / features;
        ByteBuffer scores = ByteBuffer.allocate(count * Double.BYTES);
        for (int i = 0; i < count; i++) {
            double[] row = new double[features]; // a new one each time: the forest may keep it
            rows.get(row);
            // The row's number is its time: real time stamps have gaps and go backwards, and no other detector sees them.
            scores.putDouble(forest.process(row, i).getRCFScore());
        }
        System.out.write(scores.array());
        System.out.flush();
    }
}
