"""Fuzz targets need nothing beyond the plugin that cgverify registers with pytest: options, `shard`, `fuzz`, summary."""
