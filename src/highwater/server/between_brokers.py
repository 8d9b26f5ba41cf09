"""Who may speak for the cluster: brokers to brokers, and never clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode, KafkaError
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.controller_driver import ControllerDriver
    from highwater.broker.roles import Roles
    from highwater.server.request_context import RequestContext


def roles_of(context: RequestContext) -> Roles:
    """Return who takes the controller's word, or refuse: to strangers, and in a cluster of one, which has none."""
    context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if context.broker.roles is None:
        raise _alone()
    return context.broker.roles


def controller_of(context: RequestContext) -> ControllerDriver:
    """Return the office of the controller, or refuse."""
    context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if context.broker.controller is None:
        raise _alone()
    return context.broker.controller


def _alone() -> KafkaError:
    return KafkaError("this broker is a cluster of one", code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
