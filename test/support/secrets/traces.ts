import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { accountContext, keyContext } from "../../../src/domain/accounts/domains/order.ts";
import { routes } from "../../../src/http/routes.ts";
import type { Tenant, TestApp } from "../app/app.ts";

/** A secret in longer base64 begins at any of three places of it; what surrounds it is cut off. */
const inBase64 = (secret: string): string[] =>
  [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString("base64");
    const from = Math.ceil((before * 8) / 6);
    return text.slice(from, Math.floor(((before + Buffer.byteLength(secret)) * 8) / 6));
  });

/** How a secret may be written: as it is, in a URL or JSON, as hex or base64, within something longer too. */
export const formsOf = (secret: string): Set<string> => {
  const hex = Buffer.from(secret).toString("hex");
  const base64 = inBase64(secret);
  return new Set([
    secret,
    secret.replaceAll("-", ""),
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    hex,
    hex.toUpperCase(),
    ...base64,
    ...base64.map((one) => one.replaceAll("+", "-").replaceAll("/", "_")),
  ]);
};

/** Names of the secrets that a text has in any form. */
export const namesIn = (secrets: ReadonlyMap<string, string>, text: string): string[] =>
  [...secrets]
    .filter(([, secret]) => [...formsOf(secret)].some((form) => text.includes(form)))
    .map(([name]) => name);

/** All rows of all tables as text, one a line, each after the name of its table. */
export const databaseText = ({ app }: TestApp): Promise<string> =>
  app.transact(async ({ db }) => {
    const tables = await sql<{ name: string }>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(db);
    const lines: string[] = [];
    for (const { name } of tables.rows) {
      const { rows } = await sql<{ row: string }>`
        select to_jsonb(t)::text as row from ${sql.table(name)} t`.execute(db);
      lines.push(...rows.map(({ row }) => `${name} ${row}`));
    }
    return lines.join("\n");
  });

type Readers = { owner: Tenant; admin: string; ids: Readonly<Record<string, string>> };

/**
 * Answers of all operations that read, as JSON, to an OWNER and to a super-admin.
 * @param readers `ids`: what parameters in paths are, by name; others are of nothing
 */
export const readEverything = async (api: TestApp, { owner, admin, ids }: Readers): Promise<string[]> => {
  const answers: string[] = [];
  for (const { method, path, isStream } of routes) {
    if (method !== "get" || isStream) continue;
    const at = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => ids[name] ?? randomUUID());
    const of = path.startsWith("/superadmin")
      ? { token: admin }
      : { token: owner.token, headers: { "X-Project-ID": owner.projectId } };
    const { status, body } = await api.get(`/api/v1${at}`, { ...of, isUnchecked: true });
    answers.push(JSON.stringify({ path, status, body }));
  }
  return answers;
};

/** The private keys of a domain's certificate and of the server's ACME account, PEM, as nobody sees them. */
export const openedKeys = async ({ app }: TestApp, domainId: string) => {
  const { rows } = await app.transact(({ db }) =>
    sql<{ key: string; account: string; directory: string }>`
      select c.sealed_key as key, a.sealed_key as account, a.directory_url as directory
      from custom_domain_certificates c, acme_accounts a where c.domain_id = ${domainId}::uuid`.execute(db),
  );
  const { key, account, directory } = rows[0]!;
  return {
    key: app.secretBox.open(key, keyContext(domainId)),
    account: app.secretBox.open(account, accountContext({ directoryUrl: directory })),
  };
};
