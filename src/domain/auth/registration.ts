import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { conflict, DomainError, forbidden } from "../errors.ts";
import { newId } from "../ids.ts";
import { openTenant, type TenantDefaults } from "../tenants/open-tenant.ts";
import type { Transact } from "../work.ts";
import { type Passwords, passwordProblems } from "./passwords.ts";
import { newRefreshToken } from "./refresh-tokens.ts";
import { normaliseEmail, type SignedIn, startSession } from "./sessions.ts";
import { REGISTRATION_TOKEN_SECONDS, type Tokens } from "./tokens.ts";
import type { User } from "./user.ts";

export type Registration = {
  email: string;
  name: string;
  password: string;
  /** Name of the new tenant; the user's name when absent. */
  tenantName?: string | undefined;
  tenantId?: string | undefined;
  invitationToken?: string | undefined;
  /** Invisible to people; only a bot fills it. */
  website?: string | undefined;
};

export type RegisteredUser = {
  id: string;
  email: string;
  name: string;
  tenantId: string;
  role: User["role"];
  emailVerified: boolean;
};

export type RegistrationParts = TenantDefaults & {
  transact: Transact;
  tokens: Tokens;
  passwords: Passwords;
};

/**
 * Creates a tenant and its OWNER. A filled `website` gets an answer of the same shape and nothing is stored.
 *
 * @throws VALIDATION_ERROR PASSWORD_TOO_WEAK, CONFLICT EMAIL_ALREADY_EXISTS, FORBIDDEN INVITATION_REQUIRED
 */
export const register = async (
  parts: RegistrationParts,
  body: Registration,
): Promise<SignedIn<RegisteredUser>> => {
  const { transact, tokens, passwords } = parts;
  const user: RegisteredUser = {
    id: newId(),
    email: normaliseEmail(body.email),
    name: body.name,
    tenantId: newId(),
    role: "OWNER",
    emailVerified: false,
  };
  const claims = { sub: user.id, tid: user.tenantId, sid: newId(), role: user.role };
  if (body.website) {
    await passwords.hash(body.password);
    const decoy = await tokens.signDecoy(claims, REGISTRATION_TOKEN_SECONDS);
    return {
      accessToken: decoy.token,
      refreshToken: newRefreshToken(),
      tokenType: "Bearer",
      expiresIn: REGISTRATION_TOKEN_SECONDS,
      user,
    };
  }
  refuseJoining(body);
  const problems = passwordProblems(body.password, user);
  if (problems.length > 0) {
    const message = `password: ${problems.map((problem) => problem.message).join(", ")}`;
    throw new DomainError("VALIDATION_ERROR", message, { details: problems, reason: "PASSWORD_TOO_WEAK" });
  }
  const passwordHash = await passwords.hash(body.password);
  const tenantName = body.tenantName ?? body.name;
  return transact(async (work) => {
    const { email, name } = user;
    const owner = { email, name, passwordHash, emailVerified: false };
    const opened = await openTenant(work, parts, tenantName, owner);
    const start = { method: "PASSWORD" as const, expiresIn: REGISTRATION_TOKEN_SECONDS };
    const session = await startSession(work, tokens, opened.user, start);
    const { id, tenantId, role } = opened.user;
    return { ...session, user: { ...user, id, tenantId, role } };
  }).catch((error: unknown) => {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw conflict("EMAIL_ALREADY_EXISTS", "An account with this email address exists already");
  });
};

/** Never a new tenant for someone who asked to join one. */
const refuseJoining = ({ tenantId, invitationToken }: Registration): void => {
  if (tenantId === undefined && invitationToken === undefined) return;
  throw forbidden(
    "INVITATION_REQUIRED",
    "Joining a tenant needs an invitation, and this server does not offer invitations yet; " +
      "leave out tenantId and invitationToken to create a tenant of your own",
  );
};
