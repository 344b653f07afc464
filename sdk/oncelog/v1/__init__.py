"""Generated from protos/oncelog/v1; never edited by hand."""
