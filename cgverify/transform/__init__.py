"""From a trace to a trace with regions: effects, aliases, liveness, partition, roles, emission, in that order."""
