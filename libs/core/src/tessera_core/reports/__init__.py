"""What counts of what an agent reports (docs/decisions/0014-what-counts-of-a-report.md).

All agents are one user of the message bus, so any of them may publish any report. A report counts
for its own node's cards, and for the pods that the ledger has there, and for nothing else. Every
service that reads reports asks `reports.agents.AgentReports`; a new kind of report gets its rules
here, in a module of its own.
"""
