"""The courier is the process that moves weights straight from the learner's machine to generators', at either end.

`python -m courier` is started by the learner and by each generator, one for each epoch, through
`broker.direct_weights.courier_process`. `rendezvous.py` brings the couriers of an epoch together, `communicators.py`
moves one frame from the learner's to all others, `sender.py` and `receiver.py` move a version in frames, and
`frames.py` says what a frame is. Whatever hangs here is ended with the process.
"""
