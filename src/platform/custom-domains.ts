import type { Logger } from "pino";
import type { Config } from "../config.ts";
import type { Acme } from "../domain/accounts/domains/order.ts";
import type { DnsRecords } from "../domain/accounts/domains/states.ts";
import { KnownDomains } from "../domain/accounts/domains/known.ts";
import { throttledWarnings } from "../domain/kernel/outages.ts";
import type { TransactAs } from "../domain/kernel/work.ts";
import { createAcme } from "./acme.ts";
import { createDnsRecords } from "./dns-records.ts";

/** What custom domains need. */
export type CustomDomainParts = {
  /** The custom domains of all tenants that are held. */
  domains: KnownDomains;
  dns: DnsRecords;
  /** Orders certificates; undefined where this server gets none itself. */
  acme: Acme | undefined;
};

export const createCustomDomains = (
  { domains, dnsServers }: Pick<Config, "domains" | "dnsServers">,
  transactAs: TransactAs,
  log: Logger,
): CustomDomainParts => ({
  domains: new KnownDomains({
    transact: transactAs({ role: "accounts" }),
    isOn: domains !== undefined,
    warn: throttledWarnings(log),
  }),
  dns: createDnsRecords(dnsServers),
  acme: domains?.acme && createAcme(domains.acme),
});
