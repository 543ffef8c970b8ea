import type { Passwords } from "../../accounts/auth/passwords.ts";
import { forbidden } from "../../kernel/errors.ts";
import { type Limiter, RateLimited } from "../../accounts/rate-limits/limiter.ts";
import type { Transact } from "../../kernel/work.ts";
import { LIMITS } from "../../accounts/rate-limits/limits.ts";
import { getLobby, type LobbyRef } from "./state.ts";

export type PasscodeParts = {
  transact: Transact;
  passwords: Passwords;
  limiter: Limiter;
  clock: () => Date;
};

export type Attempt = { playerId: string; passcode?: string | undefined };

const refused = () => forbidden("INVALID_PASSCODE", "the passcode is missing or wrong");

/**
 * Checks a passcode before the transaction that joins, because hashing is slow.
 * @returns the matching hash, for `joinLobby`, which checks that it is still the lobby's; null for a lobby
 * without one
 * @throws DomainError NOT_FOUND; FORBIDDEN INVALID_PASSCODE; RateLimited LOBBY_PASSCODE past 5 a minute
 */
export const checkPasscode = async (
  { transact, passwords, limiter, clock }: PasscodeParts,
  ref: LobbyRef,
  { playerId, passcode }: Attempt,
): Promise<string | null> => {
  const { passcodeHash } = await transact((work) => getLobby(work, ref));
  if (passcodeHash === null || passcode === undefined) return null;
  const key = `${ref.projectId}:${ref.lobbyId}:${playerId}`;
  const state = await limiter.consume(LIMITS.lobbyPasscode, key);
  if (!state.isAllowed)
    throw new RateLimited("LOBBY_PASSCODE", "Too many passcodes were tried", state, clock().getTime());
  if (!(await passwords.verify(passcodeHash, passcode))) throw refused();
  return passcodeHash;
};

export const invalidPasscode = refused;

/** Replaces a new passcode by its hash, before the transaction that sets it. */
export const hashPasscode = async <B extends { passcode?: string | null | undefined }>(
  passwords: Passwords,
  body: B,
): Promise<B> =>
  typeof body.passcode === "string" ? { ...body, passcode: await passwords.hash(body.passcode) } : body;
