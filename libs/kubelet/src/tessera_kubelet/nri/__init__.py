"""The Node Resource Interface: how a container runtime lets others adjust the containers that it
creates, knowing exactly which pod they belong to."""
