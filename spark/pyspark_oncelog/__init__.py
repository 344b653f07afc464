"""The oncelog data source for Apache Spark; Spark finds this package by its name."""
