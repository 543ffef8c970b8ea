/**
 * Database role of requests (`RowScope` of work.ts). Cannot log in; the connection's own role assumes it for
 * one transaction. Workers, the relay and ingestion keep the connection's role.
 */
export const WEB_ROLE = "laurel_web";

/**
 * Role of look-ups before a tenant is known (login, keys, OAuth) and of super-admins: accounts, never
 * players.
 */
export const ACCOUNTS_ROLE = "laurel_accounts";
