import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Tenant, TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";
import type { DomainDns } from "./dns-server.ts";

export const DOMAINS = "/api/v1/enterprise/domains";

/** A custom domain as the API shows it. */
export type ShownDomain = {
  id: string;
  domain: string;
  status: string;
  sslStatus: string;
  sslError: string | null;
  verification: { txtName: string; txtValue: string; cnameTarget: string };
  checks: { txt: string; routing: string; caa: string; error: string | null };
  certificate: { notAfter: string; renewAt: string; issuer: string } | null;
};

type Of = Pick<Tenant, "token">;

/** What tests do with custom domains of a server that asks `dns`. */
export const domainsOf = (api: TestApp, dns: DomainDns) => {
  const read = async (id: string, { token }: Of): Promise<ShownDomain> =>
    must(await api.get(`${DOMAINS}/${id}`, { token }), 200);
  const change = (id: string, assignments: ReturnType<typeof sql>): Promise<unknown> =>
    api.app.transact(({ db }) =>
      sql`update custom_domains set ${assignments} where id = ${id}::uuid`.execute(db),
    );
  /** Has the records looked for at once. */
  const check = (id: string): Promise<unknown> => change(id, sql`next_check_at = now()`);
  const makeRecords = ({ domain, verification }: ShownDomain): void => {
    dns.set(verification.txtName, "TXT", [verification.txtValue]);
    dns.set(domain, "CNAME", [verification.cnameTarget]);
    dns.set(domain, "A", ["127.0.0.1"]);
  };
  const add = async (domain: string, { token }: Of): Promise<ShownDomain> =>
    must(await api.post(DOMAINS, { domain }, { token }), 201);
  /** Waits until a domain is shown as it shall be. */
  const until = (id: string, of: Of, isThere: (shown: ShownDomain) => boolean): Promise<ShownDomain> =>
    eventually(
      async () => {
        const shown = await read(id, of);
        if (!isThere(shown)) throw new Error(JSON.stringify(shown));
        return shown;
      },
      { timeoutMs: 60_000 },
    );
  /** Waits for a check that ends after now. */
  const checkedAgain = async (id: string): Promise<void> => {
    const before = Date.now();
    const found = () =>
      api.app.transact(({ db }) =>
        sql<{
          at: Date | string;
        }>`select checked_at as at from custom_domains where id = ${id}::uuid`.execute(db),
      );
    await eventually(async () => new Date((await found()).rows[0]!.at).getTime() > before);
  };
  /** A domain whose records are there, once it is in the state. */
  const aDomainIn = async (status: string, of: Of, domain = aName()): Promise<ShownDomain> => {
    const made = await add(domain, of);
    makeRecords(made);
    await check(made.id);
    return until(made.id, of, (shown) => shown.status === status);
  };
  return { read, change, check, checkedAgain, makeRecords, add, until, aDomainIn };
};

export const aName = (): string => `play-${randomUUID().slice(0, 8)}.acme-games.com`;
