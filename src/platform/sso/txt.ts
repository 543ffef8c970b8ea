import type { DnsRecords } from "../../domain/accounts/domains/dns.ts";
import type { SsoClients } from "../../domain/accounts/sso/clients.ts";
import { DomainError } from "../../domain/kernel/errors.ts";

const silent = (name: string): DomainError =>
  new DomainError("UNPROCESSABLE_ENTITY", `The DNS servers of ${name} give no answer; try again`, {
    reason: "DNS_NOT_READY",
  });

/** Looks TXT records up for somebody who waits for the answer. */
export const createTxtLookup =
  (dns: DnsRecords): SsoClients["txt"] =>
  async (name) => {
    try {
      return await dns.txt(name);
    } catch {
      throw silent(name);
    }
  };
