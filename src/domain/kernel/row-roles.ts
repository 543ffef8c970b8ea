/**
 * The database roles that requests run under (`Sight` of work.ts). Neither can log in; the connection's own
 * role takes them on for one transaction. Workers, the relay and ingestion keep the connection's role.
 */
export const WEB_ROLE = "laurel_web";

/** Look-ups before a tenant is known (login, keys, OAuth) and the super-admin: accounts, never players. */
export const ACCOUNTS_ROLE = "laurel_accounts";
