import { isOrderDue, orderDueCertificates } from "../domain/accounts/domains/order.ts";
import { type Job, UNASKED_MS } from "./job.ts";

/** Orders and renews the certificates of custom domains that are due. An authority may take minutes. */
export const createOrderCertificates = (): Job => {
  const stopping = new AbortController();
  return {
    concurrency: 1,
    everyMs: UNASKED_MS,
    isDue: isOrderDue,
    stop: () => stopping.abort(),
    run: async ({ transact, acme, secretBox, log, domains, dns, config }) => {
      if (!acme) return;
      const { signal } = stopping;
      const caaNames = config.domains?.caaNames ?? [];
      await orderDueCertificates({ transact, acme, secretBox, log, dns, caaNames, signal });
      domains.forget();
    },
  };
};
