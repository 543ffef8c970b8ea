import type { Caller } from "../caller.ts";
import { unauthorized } from "../errors.ts";
import type { Transact } from "../work.ts";
import { NOBODYS_HASH, type Passwords } from "./passwords.ts";
import { issueRefreshToken } from "./refresh-tokens.ts";
import { createShortCache } from "./short-cache.ts";
import type { Tokens } from "./tokens.ts";
import { User } from "./user.ts";

export type Session<U> = {
  accessToken: string;
  refreshToken: string;
  tokenType: "Bearer";
  /** Seconds. */
  expiresIn: number;
  user: U;
};

/** The form under which an address is stored and looked up. */
export const normaliseEmail = (email: string): string => email.trim().toLowerCase();

export type LoginParts = { transact: Transact; tokens: Tokens; passwords: Passwords };

/**
 * Checks a password and starts a session. An unknown address and a wrong password are told apart neither by
 * the answer nor by the time it takes. @throws UNAUTHORIZED INVALID_CREDENTIALS
 */
export const login = async (
  { transact, tokens, passwords }: LoginParts,
  body: { email: string; password: string },
): Promise<Session<{ id: string; email: string; role: User["role"] }>> => {
  const email = normaliseEmail(body.email);
  const user = await transact(({ em }) => em.findOne(User, { email }));
  const isRight = await passwords.verify(user?.passwordHash ?? NOBODYS_HASH, body.password);
  if (!user || !isRight) throw unauthorized("INVALID_CREDENTIALS", "Email or password is wrong");
  const refreshToken = await transact((work) => issueRefreshToken(work, user.id));
  const { token, expiresIn } = await tokens.signAccess({ sub: user.id, tid: user.tenantId, role: user.role });
  return {
    accessToken: token,
    refreshToken,
    tokenType: "Bearer",
    expiresIn,
    user: { id: user.id, email: user.email, role: user.role },
  };
};

type KnownUser = { tenantId: string; role: User["role"] };
const users = createShortCache<KnownUser>();

/**
 * The caller behind an access token (without `Bearer `). The database decides whether the account exists
 * and which role it has, at most 5 s late. @throws UNAUTHORIZED TOKEN_INVALID, TOKEN_EXPIRED
 */
export const authenticateUser = async (
  transact: Transact,
  tokens: Tokens,
  bearer: string,
): Promise<Caller> => {
  const claims = await tokens.verifyAccess(bearer);
  const user = await users.get(claims.sub, () =>
    transact(async ({ em }) => {
      const found = await em.findOne(User, { id: claims.sub });
      return found ? { tenantId: found.tenantId, role: found.role } : undefined;
    }),
  );
  if (!user || user.tenantId !== claims.tid) {
    throw unauthorized("TOKEN_INVALID", "The account of this access token no longer exists");
  }
  return { kind: "user", userId: claims.sub, tenantId: user.tenantId, role: user.role };
};
