"""A script as a user would write it: `tests/test_types.py` has it checked by mypy, strictly."""

import svead_stream
from svead_stream import SVEAD, ConformalFilter, StreamingSVEAD, from_bytes, load, save

model = ConformalFilter(StreamingSVEAD(scaling="mixed", seed=1), incident_rate="5/day")
rate: float = model.alert_rate
save(model, "model.svead")

again = load("model.svead", ConformalFilter)
verdict = again.judge_one({"heat": 1.0}, t=0.0)
score: float = verdict.score
names: list[object] = list(verdict.reasons or {})
whichever = load("model.svead").judge_one({"heat": 1.0})
detector = from_bytes(StreamingSVEAD().to_bytes(), StreamingSVEAD)
shares: dict[str, float] = {str(name): share for name, share in detector.explain_one({"heat": 1.0}).items()}
labels = SVEAD(scaling="std").fit([{"heat": 1.0}, {"heat": 2.0}]).predict([{"heat": 1.0}])
event: dict[str, float] = {"heat": 1.0}
detector.learn_one(event)
rescored = detector.feedback_one(event, is_anomaly=detector.score_one(event) > rate)

svead_stream.Streaming()  # WRONG
StreamingSVEAD(scaling="minmax")  # WRONG
SVEAD(scaling="log")  # WRONG
load("model.svead", StreamingSVEAD).judge_one({"heat": 1.0})  # WRONG
