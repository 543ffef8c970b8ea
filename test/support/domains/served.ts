import { sql } from "kysely";
import type { Tenant, TestApp } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { type Answer, type Call, overHttp } from "./https.ts";
import { sharedTxtServer } from "../sso/txt-server.ts";
import { eventually } from "../eventually.ts";
import { aName, DOMAINS, type ShownDomain } from "./server.ts";

/** Sets columns of a domain, which every process then reads anew. */
export const setDomain = async (
  { app }: Pick<TestApp, "app">,
  id: string,
  columns: ReturnType<typeof sql>,
): Promise<void> => {
  await app.transact(({ db }) =>
    sql`update custom_domains set ${columns}, updated_at = now() where id = ${id}::uuid`.execute(db),
  );
  app.domains.forget();
};

/** A custom domain of a tenant of the shared server that is served: its records are there. */
export const aServedDomain = async (
  api: TestApp,
  { token }: Pick<Tenant, "token">,
): Promise<{ id: string; domain: string }> => {
  const made: ShownDomain = must(await api.post(DOMAINS, { domain: aName() }, { token }), 201);
  const { id, domain, verification } = made;
  const { records } = await sharedTxtServer();
  records.set(verification.txtName, [[verification.txtValue]]);
  records.set(`CNAME ${domain}`, [[verification.cnameTarget]]);
  await setDomain(api, id, sql`next_check_at = now()`);
  await eventually(async () => {
    const { status } = must(await api.get(`${DOMAINS}/${id}`, { token }), 200);
    return status === "ACTIVE";
  });
  api.app.domains.forget();
  return { id, domain };
};

export const removeDomain = async (api: TestApp, { token }: Pick<Tenant, "token">, id: string) =>
  must(await api.delete(`${DOMAINS}/${id}`, { token }), 200);

/** One request to a server by a host, as a trusted proxy passes on what came over TLS. */
export const atHost = ({ url }: Client, host: string, call: Partial<Call> = {}): Promise<Answer> => {
  const headers = { "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9", ...call.headers };
  return overHttp({ port: Number(new URL(url).port), host, ...call, headers });
};

/** Path and query of an address. */
export const pathOf = (address: string | URL): string => {
  const { pathname, search } = new URL(address);
  return pathname + search;
};

/** The cookies that an answer sets, as a browser sends them back. */
export const cookiesOf = ({ headers }: Answer): string =>
  (headers["set-cookie"] ?? []).map((line) => line.split(";", 1)[0]).join("; ");
