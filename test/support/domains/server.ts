import { sql } from "kysely";
import {
  type ClientRequest,
  type IncomingHttpHeaders,
  request as requestPlain,
  type RequestOptions,
} from "node:http";
import { request } from "node:https";
import { connect, type TLSSocket } from "node:tls";
import { randomUUID } from "node:crypto";
import { addCustomDomain } from "../../../src/domain/accounts/domains/known.ts";
import type { CheckParts } from "../../../src/domain/accounts/domains/transition.ts";
import { type DomainWithCertificate, readDomains } from "../../../src/domain/accounts/domains/states.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { createMail } from "../../../src/domain/accounts/email/deliveries.ts";
import { createSecretBox } from "../../../src/domain/kernel/secret-box.ts";
import type { Database } from "../../../src/platform/database.ts";
import { createDnsRecords } from "../../../src/platform/dns-records.ts";
import type { Tenant, TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { type Client, must } from "../http/client.ts";
import type { DomainDns } from "./pebble.ts";
import { sharedTxtServer } from "../sso/txt-server.ts";

export const RULES = {
  suffix: "edge.laurel-tests.com",
  ingressIps: ["192.0.2.7", "2001:db8::7"],
  ownHosts: ["edge.laurel-tests.com", "laurel-tests.com", "localhost"],
};
export const secretBox = createSecretBox(["encryption-key-of-the-tests-and-of-nothing-else"]);

/** Custom domains over a database, without a server: a test says when records are looked at. */
export const domainStore = ({ em }: Pick<Database, "em">, dnsAddress?: string) => {
  const onError = (error: unknown): never => {
    throw error;
  };
  const transact: Transact = createTransact({ em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError });
  const checks: CheckParts = {
    transact,
    dns: createDnsRecords(dnsAddress === undefined ? [] : [dnsAddress]),
    mail: createMail({ secretBox, mode: "log", consoleUrl: "http://localhost", wake: () => undefined }),
    ingress: { ...RULES, caaNames: ["ca.example.com"] },
    hasOwnCertificates: false,
  };
  return {
    transact,
    checks,
    aTenant: async (plan = "ENTERPRISE"): Promise<string> => {
      const id = newId();
      await transact(({ db }) =>
        sql`insert into tenants (id, name, approval_status, plan, created_at, updated_at)
          values (${id}::uuid, 'Acme', 'APPROVED', ${plan}, now(), now())`.execute(db),
      );
      return id;
    },
    add: (tenantId: string, domain: string): Promise<DomainWithCertificate> =>
      transact((work) => addCustomDomain(work, RULES, tenantId, domain)),
    read: async (tenantId: string): Promise<DomainWithCertificate[]> =>
      transact((work) => readDomains(work, tenantId)),
    change: (id: string, assignments: ReturnType<typeof sql>): Promise<unknown> =>
      transact(({ db }) => sql`update custom_domains set ${assignments} where id = ${id}::uuid`.execute(db)),
  };
};

type Answer = { status: number; headers: IncomingHttpHeaders; body: string; serial: string };

type Credentials = { key?: string | undefined; token?: string | undefined };

/** How a request goes to this machine: as which host, whatever its port and the name of its connection. */
export type Call = Credentials & {
  port: number;
  host: string;
  path?: string;
  method?: string;
  /** A form is sent as one, anything else as JSON. */
  body?: object;
  headers?: Record<string, string>;
};

/** A request over TLS. */
export type TlsCall = Call & {
  /** What the client asks for in the handshake; default: the host. "" for nothing. */
  servername?: string;
  /** The root that it trusts, PEM. */
  ca: string;
};

const optionsOf = ({
  port,
  host,
  path = "/health/live",
  method = "GET",
  key,
  token,
  body,
  headers = {},
}: Call): RequestOptions => ({
  host: "127.0.0.1",
  port,
  path,
  method,
  agent: false,
  timeout: 10_000,
  headers: {
    host,
    "content-type":
      body instanceof URLSearchParams ? "application/x-www-form-urlencoded" : "application/json",
    ...(key === undefined ? {} : { "x-api-key": key }),
    ...headers,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  },
});

const answerOf = (sent: ClientRequest, body: object | undefined): Promise<Answer> =>
  new Promise((resolve, reject) => {
    sent.on("response", (response) => {
      const socket = response.socket as Partial<TLSSocket>;
      const serial = socket.getPeerX509Certificate?.()?.serialNumber ?? "";
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
          serial,
        }),
      );
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", reject);
    sent.end(body instanceof URLSearchParams ? body.toString() : body && JSON.stringify(body));
  });

/** One request over TLS to a port of this machine. Rejects where the handshake fails. */
export const overTls = (call: TlsCall): Promise<Answer> => {
  const { ca, servername = call.host, body } = call;
  return answerOf(request({ ...optionsOf(call), ca, servername }), body);
};

/** One request to a port of this machine by plain HTTP, with a Host header of its own. */
export const overHttp = (call: Call): Promise<Answer> => answerOf(requestPlain(optionsOf(call)), call.body);

/** Whether a handshake for this name comes about, whatever certificate there is. */
export const shakesHands = (port: number, servername: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername, rejectUnauthorized: false });
    const end = (value: boolean): void => {
      socket.destroy();
      resolve(value);
    };
    socket.once("secureConnect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
  });

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
    api.sql`update custom_domains set ${assignments} where id = ${id}::uuid`;
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
      api.sql<{ at: Date }>`
        select checked_at as at from custom_domains where id = ${id}::uuid`;
    await eventually(async () => (await found())[0]!.at.getTime() > before);
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
