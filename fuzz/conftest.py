"""Fuzz targets need nothing beyond the plugin that cgverify registers: options, `shard`, `fuzz`, summary."""
