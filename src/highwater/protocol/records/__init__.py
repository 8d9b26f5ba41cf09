"""Record batches: the header, the records inside, the codecs."""
