"""Pure decisions about access: principals, rules, roles, quotas."""
