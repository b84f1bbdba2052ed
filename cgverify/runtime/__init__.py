"""Runs a plan: un-graphed first call, capture, replay. Knows torch.cuda and plans, not Thunder."""
