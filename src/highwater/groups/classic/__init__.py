"""The classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup): its members agree, we keep the time."""
