import { newId } from "../../kernel/ids.ts";
import { type AbuseParts, noteAbuse } from "../rate-limits/abuse.ts";
import type { Passwords } from "./passwords.ts";
import { newRandomSecret } from "./random-secret.ts";
import { newRefreshToken } from "./refresh-tokens.ts";
import type { RegisteredUser, Registration } from "./registration-request.ts";
import type { LoggedIn } from "./sessions.ts";
import { REGISTRATION_TOKEN_SECONDS, type Tokens } from "./tokens.ts";

export type BotParts = AbuseParts & { tokens: Tokens; passwords: Passwords };

/**
 * Responds to a bot: with what looks like a registration and costs as much, without storing anything. Ten of
 * them in an hour block the address for a day.
 */
export const respondToBot = async (
  parts: BotParts,
  body: Registration,
  ip: string,
): Promise<LoggedIn<RegisteredUser>> => {
  const { tokens, passwords } = parts;
  await noteAbuse(parts, "honeypot", ip);
  await passwords.hash(body.password);
  const isJoining = body.tenantId !== undefined || body.invitationToken !== undefined;
  const user: RegisteredUser = {
    id: newId(),
    email: body.email,
    name: body.name,
    tenantId: body.tenantId ?? newId(),
    role: isJoining ? "VIEWER" : "OWNER",
    emailVerified: body.invitationToken !== undefined,
  };
  const claims = { sub: user.id, tid: user.tenantId, sid: newId(), role: user.role };
  const { token, expiresIn } = await tokens.signDecoy(claims, REGISTRATION_TOKEN_SECONDS);
  const refreshToken = newRefreshToken();
  return {
    signedIn: { accessToken: token, refreshToken, tokenType: "Bearer", expiresIn, user },
    deviceToken: newRandomSecret(),
  };
};
