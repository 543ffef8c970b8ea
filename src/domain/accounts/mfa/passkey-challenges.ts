import { randomBytes, timingSafeEqual } from "node:crypto";
import { consumeId } from "../auth/consumed-ids.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { Transact } from "../../kernel/work.ts";

/** How long a browser may take to answer. */
export const PASSKEY_CHALLENGE_SECONDS = 300;
const RANDOM_BYTES = 16;
const BODY_BYTES = RANDOM_BYTES + 6;

/** What a challenge is for: to prove a passkey, or to make one for an account. */
export type ChallengePurpose = "get" | `create:${string}`;

const macOf = (tokens: Tokens, purpose: ChallengePurpose, body: Buffer): Buffer =>
  Buffer.from(tokens.mac(`passkey\n${purpose}\n${body.toString("base64url")}`), "base64url");

/** Returns a new challenge. Nothing is stored: it carries its end and is signed. */
export const newPasskeyChallenge = (tokens: Tokens, purpose: ChallengePurpose, now: Date): Uint8Array => {
  const body = Buffer.alloc(BODY_BYTES);
  randomBytes(RANDOM_BYTES).copy(body);
  body.writeUIntBE(now.getTime() + PASSKEY_CHALLENGE_SECONDS * 1_000, RANDOM_BYTES, 6);
  return Buffer.concat([body, macOf(tokens, purpose, body)]);
};

/** Returns when a challenge of this server for this purpose ends; undefined for any other. */
const endOf = (tokens: Tokens, purpose: ChallengePurpose, challenge: string): Date | undefined => {
  const bytes = Buffer.from(challenge, "base64url");
  const body = bytes.subarray(0, BODY_BYTES);
  const mac = bytes.subarray(BODY_BYTES);
  const right = macOf(tokens, purpose, body);
  if (body.length < BODY_BYTES || mac.length !== right.length || !timingSafeEqual(mac, right))
    return undefined;
  return new Date(body.readUIntBE(RANDOM_BYTES, 6));
};

export type ChallengeParts = { accounts: Transact; tokens: Tokens };

/** Uses a challenge up; false for one of another purpose or server, one that ended, or was used before. */
export const usePasskeyChallenge = async (
  { accounts, tokens }: ChallengeParts,
  purpose: ChallengePurpose,
  challenge: string,
): Promise<boolean> => {
  const expiresAt = endOf(tokens, purpose, challenge);
  if (!expiresAt) return false;
  return accounts(async (work) => {
    if (work.now >= expiresAt) return false;
    const id = Buffer.from(challenge, "base64url").toString("base64url");
    return consumeId(work, { kind: "passkey", id, expiresAt });
  });
};

/** Returns the challenge that a browser says it has answered; undefined when it says nothing legible. */
export const challengeIn = (clientDataJSON: string): string | undefined => {
  try {
    const data: unknown = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString());
    const { challenge } = data as { challenge?: unknown };
    return typeof challenge === "string" ? challenge : undefined;
  } catch {
    return undefined;
  }
};
