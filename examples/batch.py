"""A data set instead of a stream: the paper's detector on a DataFrame, and its three kinds of anomalies as pictures."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score

from svead_stream import SVEAD

rng = np.random.default_rng(6)
line = rng.uniform(-4, 4, 300)
slope = np.repeat([1.0, -1.0], [270, 30])
ring = rng.uniform(0, 2 * np.pi, 30)
moons, _ = make_moons(270, noise=0.05, random_state=6)
anywhere = rng.uniform([-1, -0.6], [2, 1.1], (500, 2))
between = anywhere[np.linalg.norm(anywhere[:, None] - moons, axis=2).min(axis=1) > 0.2][:30]
far = np.column_stack([np.cos(ring), np.sin(ring)]) * rng.uniform(4, 6, (30, 1))
data_sets = {
    "S1 global": np.vstack([rng.normal(size=(270, 2)), far]),
    "S2 local": np.vstack([moons, between]),
    "S3 dependency": np.column_stack([line, slope * line + rng.normal(0, 0.3, 300)]),
}
truth = np.repeat([0, 1], [270, 30])

figure, plots = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for plot, (name, X) in zip(plots, data_sets.items(), strict=True):
    frame = pd.DataFrame(X, columns=["x", "y"])
    model = SVEAD(n_anchors=64, random_state=6).fit(frame)
    print(f"{name}: ROC AUC {roc_auc_score(truth, model.anomaly_scores_):.3f}")
    x, y = (np.linspace(c.min() - 0.5, c.max() + 0.5, 120) for c in X.T)
    grid = pd.DataFrame(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), columns=["x", "y"])
    plot.contourf(x, y, -model.score_samples(grid).reshape(120, 120), levels=20, cmap="cividis")
    plot.scatter(*X.T, s=8, c=np.where(truth, "black", "white"), edgecolors="gray", linewidths=0.3)
    plot.set_title(name)
    plot.set_xticks([])
    plot.set_yticks([])
figure.savefig("svead_batch.png", dpi=120)
print("picture: svead_batch.png")
