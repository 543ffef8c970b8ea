import type { Tokens } from "../auth/tokens.ts";
import type { Caller } from "../caller.ts";
import { unauthorized } from "../errors.ts";
import type { Transact } from "../work.ts";

/**
 * The super-admin behind a token of `POST /superadmin/auth/login`, or the machine behind a platform token
 * (`svc_admin_...`).
 *
 * @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED, SESSION_REVOKED
 */
export const authenticateAdmin = async (
  { tokens }: { transact: Transact; tokens: Tokens },
  bearer: string,
): Promise<Caller> => {
  await tokens.verifyAdmin(bearer);
  throw unauthorized("TOKEN_INVALID", "There are no super-admins");
};
