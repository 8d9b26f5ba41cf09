"""`python -m highwater_spark run FILE`; `spark-submit` takes this very file."""

from highwater_spark.app import app

if __name__ == "__main__":
    app(prog_name="python -m highwater_spark")
