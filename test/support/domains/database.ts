import { sql } from "kysely";
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
