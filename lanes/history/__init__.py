"""What a response continues from: lineage, entries and the archive of stored responses."""
