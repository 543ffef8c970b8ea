import { randomBytes, timingSafeEqual } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { consumeId } from "../auth/one-time-secrets.ts";
import type { Tokens } from "../auth/tokens.ts";
import { type FactorOwner, type LoginRef, ownerColumns, type OwnerRef } from "./owner.ts";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { shown } from "../../kernel/json.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** How long a browser may take to answer. */
export const PASSKEY_CHALLENGE_SECONDS = 300;
const RANDOM_BYTES = 16;
const BODY_BYTES = RANDOM_BYTES + 6;

/** What a challenge is for: to prove a passkey, or to make one for an account. */
type ChallengePurpose = "get" | `create:${string}`;

const macOf = (tokens: Tokens, purpose: ChallengePurpose, body: Buffer): Buffer =>
  Buffer.from(tokens.mac(`passkey\n${purpose}\n${body.toString("base64url")}`), "base64url");

/** Returns a new challenge. Nothing is stored: it carries its end and is signed. */
const newPasskeyChallenge = (tokens: Tokens, purpose: ChallengePurpose, now: Date): Uint8Array => {
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

type ChallengeParts = { accounts: Transact; tokens: Tokens };

/** Returns the challenge that a browser says it has answered; undefined when it says nothing legible. */
const challengeIn = (clientDataJSON: string): string | undefined => {
  try {
    const data: unknown = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString());
    const { challenge } = data as { challenge?: unknown };
    return typeof challenge === "string" ? challenge : undefined;
  } catch {
    return undefined;
  }
};

/**
 * Uses up the challenge that a browser says it has answered. @returns it; undefined for one of another purpose
 * or server, one that ended, or was used before
 */
const takeChallenge = async (
  { accounts, tokens }: ChallengeParts,
  purpose: ChallengePurpose,
  { clientDataJSON }: { clientDataJSON: string },
): Promise<string | undefined> => {
  const challenge = challengeIn(clientDataJSON);
  const expiresAt = challenge && endOf(tokens, purpose, challenge);
  if (!expiresAt) return undefined;
  const id = Buffer.from(challenge, "base64url").toString("base64url");
  const isOurs = await accounts(
    async (work) => work.now < expiresAt && consumeId(work, { kind: "passkey", id, expiresAt }),
  );
  return isOurs ? challenge : undefined;
};

const Base64Url = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[\w-]*$/, "must be base64url");

const ofCredential = {
  id: Base64Url(2_048).min(1),
  rawId: Base64Url(2_048).min(1),
  type: z.literal("public-key"),
};

/** The proof that somebody has a passkey; browsers send more fields, which are ignored. */
export const AssertionInput = z
  .looseObject({
    ...ofCredential,
    response: z.looseObject({
      clientDataJSON: Base64Url(8_192),
      authenticatorData: Base64Url(4_096),
      signature: Base64Url(2_048),
      userHandle: Base64Url(128).nullish(),
    }),
  })
  .meta({ description: "What `navigator.credentials.get()` returned, as its toJSON() gives it" });

export type Assertion = z.output<typeof AssertionInput>;

/** A new passkey; browsers send more fields, which are ignored. */
export const NewCredentialInput = z
  .looseObject({
    ...ofCredential,
    response: z.looseObject({
      clientDataJSON: Base64Url(8_192),
      attestationObject: Base64Url(16_384),
      transports: z.array(z.string().max(32)).max(10).optional(),
    }),
  })
  .meta({ description: "What `navigator.credentials.create()` returned, as its toJSON() gives it" });
export type NewCredential = z.output<typeof NewCredentialInput>;

/** What is kept of a passkey to verify it. */
export type KnownCredential = {
  credentialId: string;
  /** COSE key, base64url. */
  publicKey: string;
  /** Signatures so far, if its authenticator counts them; else 0. */
  counter: number;
  transports: string[];
};

/** What is kept of a new passkey. */
export type VerifiedCredential = KnownCredential & { isBackedUp: boolean };

/** Who makes a passkey. */
type PasskeyUser = { id: string; email: string; name: string };

/** Options for the browser, as JSON of WebAuthn. */
export type PasskeyOptions = { challenge: string; [field: string]: unknown };

/** Verifies passkeys by WebAuthn. Whose challenge it was, the caller verifies. */
export type PasskeyVerifier = {
  /** Options of `navigator.credentials.create()`; the passkeys of `known` cannot be made again. */
  creationOptions(
    challenge: Uint8Array,
    user: PasskeyUser,
    known: readonly KnownCredential[],
  ): Promise<PasskeyOptions>;
  /** Options of `navigator.credentials.get()`: any passkey of this server. */
  requestOptions(challenge: Uint8Array): Promise<PasskeyOptions>;
  /** Returns what to keep of a new passkey; undefined when it is not valid. */
  verifyNew(credential: NewCredential, challenge: string): Promise<VerifiedCredential | undefined>;
  /** Returns the new counter of a passkey; undefined when the proof is not valid. */
  verify(
    assertion: Assertion,
    known: KnownCredential,
    challenge: string,
  ): Promise<{ counter: number; isBackedUp: boolean } | undefined>;
};

/** Maximum passkeys of an account. */
export const PASSKEYS_MAX = 20;

type Row = KnownCredential & {
  id: string;
  name: string;
  isBackedUp: boolean;
  createdAt: Date;
  lastUsedAt: Date | null;
};

const COLUMNS = sql`id, name, is_backed_up as "isBackedUp", created_at as "createdAt",
  last_used_at as "lastUsedAt", credential_id as "credentialId", public_key as "publicKey",
  counter::float8 as counter, transports`;

const show = (row: Row) => shown(row, ["id", "name", "isBackedUp", "createdAt", "lastUsedAt"]);

const rowsOf = async ({ db }: Work, { row }: FactorOwner): Promise<Row[]> => {
  const { rows } = await sql<Row>`
    select ${COLUMNS} from passkeys where owner_id = ${row.id}::uuid order by created_at, id`.execute(db);
  return rows;
};

/** Returns the account's passkeys, oldest first. */
export const listPasskeys = async (work: Work, owner: FactorOwner) => (await rowsOf(work, owner)).map(show);

/**
 * Refuses a page of an origin at which no browser would use a passkey of this server, such as one at a custom
 * domain; who sends no Origin is no page. @throws FORBIDDEN ORIGIN_NOT_ALLOWED, which says where they work
 */
export const requirePasskeyOrigin = (
  { origins }: { origins: readonly string[] },
  origin: string | undefined,
): void => {
  if (origin === undefined || origins.includes(origin)) return;
  const message =
    `Passkeys work on pages of ${origins.join(", ")}, as browsers keep them for that host; ` +
    "use one there, or sign in here by other ways";
  throw forbidden("ORIGIN_NOT_ALLOWED", message);
};

export type PasskeyParts = ChallengeParts & { passkeys: PasskeyVerifier };

/** Returns options for the browser to prove any passkey, valid five minutes. */
export const passkeyRequest = (
  { tokens, passkeys }: Pick<PasskeyParts, "tokens" | "passkeys">,
  now: Date,
): Promise<PasskeyOptions> => passkeys.requestOptions(newPasskeyChallenge(tokens, "get", now));

const full = () =>
  conflict("LIMIT_REACHED", `An account has at most ${PASSKEYS_MAX} passkeys; remove one first`);

/** A passkey is made by the login that has asked for it. */
const creationOf = ({ id, sessionId, loginVersion }: LoginRef): ChallengePurpose =>
  `create:${id}:${sessionId ?? loginVersion ?? ""}`;

/**
 * Returns options for the browser to make a passkey, valid five minutes for this login.
 * @throws CONFLICT LIMIT_REACHED
 */
export const passkeyCreation = async (
  work: Work,
  { tokens, passkeys }: Pick<PasskeyParts, "tokens" | "passkeys">,
  { owner, self }: { owner: FactorOwner; self: LoginRef },
): Promise<PasskeyOptions> => {
  const known = await rowsOf(work, owner);
  if (known.length >= PASSKEYS_MAX) throw full();
  const { id, email, name } = owner.row;
  const challenge = newPasskeyChallenge(tokens, creationOf(self), work.now);
  return passkeys.creationOptions(challenge, { id, email, name }, known);
};

/**
 * Verifies a new passkey of an account. Its challenge is used up whatever comes of it.
 * @throws VALIDATION_ERROR PASSKEY_INVALID
 */
export const verifyNewPasskey = async (
  parts: PasskeyParts,
  self: LoginRef,
  credential: NewCredential,
): Promise<VerifiedCredential> => {
  const challenge = await takeChallenge(parts, creationOf(self), credential.response);
  const verified = challenge && (await parts.passkeys.verifyNew(credential, challenge));
  if (verified) return verified;
  const message = "is not a passkey for this server, or answers a challenge that has ended; begin again";
  throw invalid("credential", message, "PASSKEY_INVALID");
};

/** Adds a verified passkey. @throws CONFLICT ALREADY_EXISTS for one that is known, LIMIT_REACHED */
export const insertPasskey = async (
  work: Work,
  owner: FactorOwner,
  { name, verified }: { name: string; verified: VerifiedCredential },
) => {
  const { db, now } = work;
  if ((await rowsOf(work, owner)).length >= PASSKEYS_MAX) throw full();
  const { credentialId, publicKey, counter, transports, isBackedUp } = verified;
  const { rows } = await sql<Row>`
    insert into passkeys (id, owner_id, user_id, admin_id, tenant_id, name, credential_id, public_key,
      counter, transports, is_backed_up, created_at)
    values (${newId()}::uuid, ${ownerColumns(owner)}, ${name}, ${credentialId}, ${publicKey},
      ${counter}::bigint, (select coalesce(array_agg(t), '{}')
        from json_array_elements_text(${JSON.stringify(transports)}::json) as j(t)),
      ${isBackedUp}, ${now.toISOString()}::timestamptz)
    on conflict (credential_id) do nothing
    returning ${COLUMNS}`.execute(db);
  if (!rows[0]) throw conflict("ALREADY_EXISTS", "This passkey belongs to an account already");
  return show(rows[0]);
};

/** Changes a passkey of the account by a statement, and returns it. @throws NOT_FOUND */
const change = async ({ db }: Work, { row }: FactorOwner, id: string, statement: RawBuilder<unknown>) => {
  if (!isId(id)) throw notFound("Passkey");
  const { rows } = await sql<Row>`
    ${statement} where id = ${id}::uuid and owner_id = ${row.id}::uuid returning ${COLUMNS}`.execute(db);
  if (!rows[0]) throw notFound("Passkey");
  return show(rows[0]);
};

/** Renames a passkey of the account. @throws NOT_FOUND */
export const renamePasskey = (
  work: Work,
  owner: FactorOwner,
  { passkeyId, name }: { passkeyId: string; name: string },
) => change(work, owner, passkeyId, sql`update passkeys set name = ${name}`);

/** Deletes a passkey of the account and returns it. @throws NOT_FOUND */
export const deletePasskey = (work: Work, owner: FactorOwner, passkeyId: string) =>
  change(work, owner, passkeyId, sql`delete from passkeys`);

/** A passkey that was proved; its counter is stored by `usePasskey`. */
export type ProvedPasskey = { passkeyId: string; owner: OwnerRef; counter: number; isBackedUp: boolean };

type Found = KnownCredential & { id: string; userId: string | null; adminId: string | null };

const findCredential = async ({ db }: Work, credentialId: string): Promise<Found | undefined> => {
  const { rows } = await sql<Found>`
    select ${COLUMNS}, user_id as "userId", admin_id as "adminId" from passkeys
    where credential_id = ${credentialId}`.execute(db);
  return rows[0];
};

/** The account that the authenticator has the passkey for, as told when it was made. */
const isHandleOf = (handle: string | null | undefined, ownerId: string): boolean =>
  handle == null || Buffer.from(handle, "base64url").toString() === ownerId;

/** Verifies the proof of a passkey, whosever it is; its challenge is used up whatever comes of it. */
export const provePasskey = async (
  parts: PasskeyParts,
  assertion: Assertion,
): Promise<ProvedPasskey | undefined> => {
  const challenge = await takeChallenge(parts, "get", assertion.response);
  if (challenge === undefined) return undefined;
  const found = await parts.accounts((work) => findCredential(work, assertion.id));
  if (!found) return undefined;
  const { id: passkeyId, userId, adminId, ...known } = found;
  const owner: OwnerRef =
    userId === null ? { kind: "admin", id: adminId ?? "" } : { kind: "user", id: userId };
  if (!isHandleOf(assertion.response.userHandle, owner.id)) return undefined;
  const proved = await parts.passkeys.verify(assertion, known, challenge);
  return proved && { passkeyId, owner, ...proved };
};

/**
 * Records the use of a proved passkey. False when it was removed meanwhile, belongs to another account, or
 * its counter did not grow: then somebody has a copy of it.
 */
export const usePasskey = async (
  { db, now }: Work,
  { row }: FactorOwner,
  { passkeyId, counter, isBackedUp }: ProvedPasskey,
): Promise<boolean> => {
  const { rows } = await sql`
    update passkeys set counter = ${counter}::bigint, is_backed_up = ${isBackedUp},
      last_used_at = ${now.toISOString()}::timestamptz
    where id = ${passkeyId}::uuid and owner_id = ${row.id}::uuid
      and (counter < ${counter}::bigint or (counter = 0 and ${counter}::bigint = 0))
    returning 1`.execute(db);
  return rows.length === 1;
};
