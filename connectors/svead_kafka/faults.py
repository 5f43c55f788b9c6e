"""Which faults of the cluster will not pass by themselves, and what to do about them."""

from __future__ import annotations

from kafka import errors

from svead_kafka.patches import UnreadableBatch

# The same at the next attempt.
_REMEDIES: dict[type[errors.KafkaError], str] = {
    errors.TopicAuthorizationFailedError: "allow the user to read the input and to write the other topics; the state "
    "topic needs both",
    errors.GroupAuthorizationFailedError: "allow the user to read the group",
    errors.TransactionalIdAuthorizationFailedError: "allow the user to write and describe the transactional id "
    "(--transactional-id; by default the group with a random ending)",
    errors.ClusterAuthorizationFailedError: "allow the user idempotent writes, or leave out --create-topics",
    errors.InvalidTransactionTimeoutError: "transaction.timeout.ms must not be above the brokers' "
    "transaction.max.timeout.ms",
    errors.InvalidSessionTimeoutError: "session.timeout.ms must lie between the brokers' group.min.session.timeout.ms "
    "and group.max.session.timeout.ms",
    errors.InconsistentGroupProtocolError: "the group has members of another program: take another --group",
    errors.InvalidGroupIdError: "take another --group",
    errors.FencedInstanceIdError: "another worker has joined the group with the --instance-id "
    "(group.instance.id) of this one: give each worker its own, such as the name of its pod",
    errors.GroupMaxSizeReachedError: "the group has as many members as the brokers' group.max.size allows",
    errors.InvalidTopicError: "take another name of the topic",
    errors.PolicyViolationError: "create the topics by hand, as the cluster's policy wants them",
    errors.InvalidConfigurationError: "create the topics by hand, with settings that this cluster knows",
    errors.InvalidReplicationFactorError: "the cluster has fewer brokers than its default.replication.factor",
    errors.UnsupportedCompressionTypeError: "take another compression.type, or a newer cluster",
    errors.UnsupportedVersionError: "the cluster is too old",
    errors.IncompatibleBrokerVersion: "the cluster is too old",
    errors.MessageSizeTooLargeError: "raise max.message.bytes of the topic",
    errors.UnsupportedSaslMechanismError: "take another sasl.mechanism in the file of --client-config",
    errors.KafkaConfigurationError: "mend the file of --client-config",
}


def permanent(error: BaseException) -> str | None:
    """What to tell of a fault that would be the same at the next attempt; None if another attempt may help."""
    if isinstance(error, UnreadableBatch):
        return str(error.args[0])
    for kind, remedy in _REMEDIES.items():
        # Of some faults the client makes an error without a kind, and names it in the text.
        if isinstance(error, kind) or (type(error) is errors.KafkaError and kind.__name__ in str(error)):
            return f"{error}: {remedy}"
    return None
