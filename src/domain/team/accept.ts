import type { Role } from "../caller.ts";
import { notFound } from "../errors.ts";
import type { Work } from "../work.ts";

/** What an invitation grants to whoever proved its address. */
export type Invited = { invitationId: string; tenantId: string; role: Role };

/**
 * Uses an invitation up, in the commit that makes the member. The token alone proves the address when it came
 * by mail; `email` is the address of the one who accepts.
 *
 * @throws NOT_FOUND for an unknown token, GONE INVITATION_EXPIRED, INVITATION_REVOKED, CONFLICT INVALID_STATE
 *   when accepted before, FORBIDDEN INVITATION_EMAIL_MISMATCH
 */
export const consumeInvitation = async (_work: Work, _token: string, _email: string): Promise<Invited> => {
  throw notFound("Invitation");
};
