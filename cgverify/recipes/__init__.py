"""Real models under the transform: a small GPT that generates and trains, and a convolutional net that trains.

``python -m cgverify.recipes.generate`` and ``python -m cgverify.recipes.train`` run them eagerly, with Thunder, with
Thunder's own CUDA graphs and with cgverify's, say whose results are right, and time those.
"""
