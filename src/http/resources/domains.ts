import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, type Caller, DEVELOPERS, userOf } from "../../domain/kernel/caller.ts";
import {
  CAA_RESULTS,
  CHECK_RESULTS,
  DOMAIN_STATUSES,
  type DomainWithCertificate,
  readDomains,
  SSL_STATUSES,
} from "../../domain/accounts/domains/states.ts";
import { checkOne } from "../../domain/accounts/domains/transition.ts";
import {
  addCustomDomain,
  getCustomDomain,
  leaveToWorkers,
  recheckCustomDomain,
  removeCustomDomain,
  requireDomains,
  showCustomDomain,
} from "../../domain/accounts/domains/known.ts";
import { countUse, LIMITS } from "../../domain/accounts/rate-limits/limiter.ts";
import { DOMAIN_MAX } from "../../domain/accounts/sso/domain-name.ts";
import { Reply, group } from "../route.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { Deleted, deleted } from "./bodies.ts";
import { provenAgain } from "./mfa-login.ts";

const common = group({ tag: "Custom domains", project: "none" });
const writes = common.with({
  access: { roles: ADMINS, needs: { feature: "customDomains", verifiedEmail: true } },
  errors: ["PAYMENT_REQUIRED"],
});
const Id = z.string().max(64);
const Time = z.iso.datetime();
const Check = z.enum(CHECK_RESULTS);

const CustomDomainBody = z
  .object({
    id: z.uuid(),
    domain: z.string().meta({ description: "ASCII, lower case", example: "play.acme.com" }),
    status: z.enum(DOMAIN_STATUSES).meta({
      description:
        "The host is served while it is VERIFIED (without TLS of this server yet), ACTIVE or DEGRADED",
    }),
    sslStatus: z.enum(SSL_STATUSES).meta({
      description: "NONE as well where a proxy in front of this server has the certificates",
    }),
    verification: z.object({
      txtName: z.string().meta({ description: "Name of the TXT record to make" }),
      txtValue: z.string().meta({ description: "Its value" }),
      cnameTarget: z
        .string()
        .nullable()
        .meta({ description: "What the domain is to be a CNAME of; its own" }),
      aRecords: z
        .array(z.string())
        .meta({ description: "Or the addresses that it is to have, and no others" }),
    }),
    checks: z.object({
      txt: Check,
      routing: Check,
      caa: z.enum(CAA_RESULTS).meta({
        description:
          "Whether CAA records let this server's certificate authority issue. UNKNOWN also where a proxy " +
          "has the certificates; it holds nothing up",
      }),
      checkedAt: Time.nullable(),
      error: z.string().nullable(),
    }),
    certificate: z.object({ issuer: z.string(), notBefore: Time, notAfter: Time, renewAt: Time }).nullable(),
    sslError: z.string().nullable().meta({ description: "Why the last order of a certificate failed" }),
    createdAt: Time,
    updatedAt: Time,
  })
  .meta({ id: "CustomDomain" });

const show = ({ config }: App, row: DomainWithCertificate, now: Date) =>
  showCustomDomain(row, config.domains, now);

/** Answers with the domain of the path, as `read` returns it. */
const answerOne = (
  app: App,
  { caller, params }: { caller: Caller; params: { domainId: string } },
  read: typeof getCustomDomain,
) =>
  app.transact(async (work) =>
    show(app, await read(work, userOf(caller).tenantId, params.domainId), work.serverNow),
  );

/** @throws RateLimited DOMAIN_CHECK_RATE */
export const countCheck = (app: App, key: string): Promise<void> => {
  const count = { bucket: LIMITS.domainCheck, key };
  return countUse(app, count, "DOMAIN_CHECK_RATE", "A domain may be checked once a minute");
};

/** How long the records of one domain are waited for, in ms; a worker goes on looking. */
const LOOK_MS = 8_000;

/** A domain that was asked to be looked at. */
type Asked = { tenantId: string; id: string };

/** Looks at a domain's records, and at those of another tenant that holds the name; else a worker is to. */
const lookNow = async (app: App, { tenantId, id }: Asked): Promise<void> => {
  const { dns, mail, domains } = app;
  const ingress = requireDomains(app.config.domains);
  const look = async (): Promise<void> => {
    const transact = app.transactAs({ role: "accounts" });
    try {
      await checkOne({ transact, dns, mail, ingress, hasOwnCertificates: ingress.acme !== undefined }, id);
      domains.forget();
    } catch (err) {
      app.log.error({ err, domainId: id }, "the records of a domain could not be looked at");
    } finally {
      domains.looks.release(tenantId);
    }
  };
  const isLookedAt = domains.looks.tryAcquire(tenantId) && look().then(() => true);
  if (!(await Promise.race([isLookedAt, delay(LOOK_MS, true, { ref: false })])))
    await app.transact((work) => leaveToWorkers(work, tenantId, id));
};

const remove = (work: Work, app: App, caller: Caller, id: string) => {
  work.afterCommit(() => app.domains.forget());
  return deleted(removeCustomDomain(work, userOf(caller).tenantId, id));
};

const removal = common.with({ access: { roles: ADMINS }, response: Deleted });

export const domainRoutes = [
  common.get("/enterprise/domains", "listCustomDomains", {
    summary: "List custom domains",
    description: "In alphabetical order, at most 100. Readable on every plan.",
    access: { roles: DEVELOPERS },
    response: z.object({ data: z.array(CustomDomainBody) }),
    run: async (work, { caller }, app) => ({
      data: (await readDomains(work, userOf(caller).tenantId)).map((row) => show(app, row, work.serverNow)),
    }),
  }),
  writes.post("/enterprise/domains", "addCustomDomain", {
    summary: "Add a custom domain",
    description:
      "Make the records of the answer: the TXT record, and a CNAME or addresses. They are looked for each " +
      "minute in the first hour, then each ten minutes; after 72 hours the domain is FAILED. Once they are " +
      "seen the name is the tenant's alone. 503 DOMAINS_NOT_CONFIGURED where this server has none.",
    body: z.strictObject({ domain: z.string().max(DOMAIN_MAX).meta({ example: "play.acme.com" }) }),
    example: { domain: "play.acme.com" },
    status: 201,
    response: CustomDomainBody,
    run: async (work, { caller, body }, app) => {
      const rules = requireDomains(app.config.domains);
      const made = await addCustomDomain(work, rules, userOf(caller).tenantId, body.domain);
      return show(app, made, work.serverNow);
    },
  }),
  common.get("/enterprise/domains/{domainId}", "getCustomDomain", {
    summary: "Get a custom domain",
    access: { roles: DEVELOPERS },
    response: CustomDomainBody,
    outside: (app, asked) => answerOne(app, asked, getCustomDomain),
  }),
  writes.post("/enterprise/domains/{domainId}/verify", "verifyCustomDomain", {
    summary: "Have a custom domain checked",
    description:
      "Its records are looked for before the answer, which says in `checks` what was seen; if DNS servers " +
      "give no answer within 8 seconds, GET shows it later. Once a minute. A FAILED or SUSPENDED domain " +
      "is PENDING again, and a certificate that failed is ordered again.",
    response: CustomDomainBody,
    prepare: async (app, { actor, params }) => {
      requireDomains(app.config.domains);
      const { tenantId } = userOf(actor.caller);
      const { domain } = await app.transact((work) => getCustomDomain(work, tenantId, params.domainId));
      await countCheck(app, `${tenantId}:${domain}`);
    },
    outside: async (app, asked) => {
      const { tenantId } = userOf(asked.caller);
      const body = await answerOne(app, asked, recheckCustomDomain);
      return Reply.resumable(body, { tenantId, id: body.id } satisfies Asked);
    },
    resume: async (app, left) => {
      const { tenantId, id } = left as Asked;
      await lookNow(app, { tenantId, id });
      return app.transact(async (work) =>
        show(app, await getCustomDomain(work, tenantId, id), work.serverNow),
      );
    },
  }),
  removal.delete("/enterprise/domains/{domainId}", "removeCustomDomain", {
    summary: "Remove a custom domain",
    description: "Its certificate is deleted, and the key of that. It is served no more within 5 seconds.",
    ...provenAgain,
    run: (work, { caller, params }, app) => remove(work, app, caller, params.domainId),
  }),
  removal.delete("/enterprise/domains", "removeCustomDomainById", {
    summary: "Remove a custom domain, named in the query",
    description: "As DELETE /enterprise/domains/{domainId}.",
    query: z.object({ id: Id }),
    ...provenAgain,
    run: (work, { caller, query }, app) => remove(work, app, caller, query.id),
  }),
];
