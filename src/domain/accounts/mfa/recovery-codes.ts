import { createHash, randomBytes } from "node:crypto";
import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type FactorOwner, ownerColumns } from "./owner.ts";

export const RECOVERY_CODES = 10;
/** Without letters and digits that look alike; 32 of them, so that each byte's last 5 bits choose evenly. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";
/** 80 bits: nobody finds a code by trying, nor from its hash. */
const CHARACTERS = 16;
const GROUP = /.{4}(?=.)/g;

const newCode = (): string =>
  [...randomBytes(CHARACTERS)].map((byte) => ALPHABET[byte % ALPHABET.length]).join("");

/** Hashed with its owner, so that equal codes of two accounts do not look alike. */
const hashOf = (ownerId: string, code: string): string =>
  createHash("sha256").update(`${ownerId}\n${code}`).digest("hex");

/** Returns the code as it was shown, without its dashes; undefined for a text that cannot be one. */
const normalise = (text: string): string | undefined => {
  const code = text.toLowerCase().replaceAll(/[\s-]/g, "");
  return /^[a-z2-9]{16}$/.test(code) ? code : undefined;
};

/** Replaces the account's codes and returns the new ones, which are shown only here. */
export const replaceCodes = async ({ db, now }: Work, owner: FactorOwner): Promise<string[]> => {
  const { id } = owner.row;
  const codes = Array.from({ length: RECOVERY_CODES }, newCode);
  await sql`delete from recovery_codes where owner_id = ${id}::uuid`.execute(db);
  const hashes = JSON.stringify(codes.map((code) => hashOf(id, code)));
  await sql`
    insert into recovery_codes (owner_id, user_id, admin_id, tenant_id, hash, created_at)
    select ${ownerColumns(owner)}, hash, ${now.toISOString()}::timestamptz
    from json_array_elements_text(${hashes}::json) as c(hash)`.execute(db);
  return codes.map((code) => code.replaceAll(GROUP, "$&-"));
};

/** Uses a code: of several uses at the same time, in whatever processes, one succeeds. */
export const useRecoveryCode = async ({ db }: Work, { row }: FactorOwner, text: string): Promise<boolean> => {
  const code = normalise(text);
  if (code === undefined) return false;
  const { rows } = await sql`
    delete from recovery_codes where owner_id = ${row.id}::uuid and hash = ${hashOf(row.id, code)}
    returning 1`.execute(db);
  return rows.length === 1;
};

export const countCodes = async ({ db }: Work, { row }: FactorOwner): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from recovery_codes where owner_id = ${row.id}::uuid`.execute(db);
  return rows[0]?.count ?? 0;
};

export const deleteCodes = async ({ db }: Work, { row }: FactorOwner): Promise<void> => {
  await sql`delete from recovery_codes where owner_id = ${row.id}::uuid`.execute(db);
};
