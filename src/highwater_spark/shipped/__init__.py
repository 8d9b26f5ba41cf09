"""Pipelines that come with the package, each with a generator of realistic events to try it with."""
