"""Every setting, grouped by theme, under Kafka's names.

Defaults and bounds are those of Apache Kafka 4.1 (as its `KafkaConfig.configDef()` has them), except where a setting's
own sentence says otherwise.
"""
