"""Plans: what would be worth changing among running pods, proposed as RebalancePlan objects, and
carried out when a person or the policy approves."""
