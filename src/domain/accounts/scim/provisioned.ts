import type { Mail } from "../email/mail.ts";
import { releaseUnproved } from "../sso/unproved.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { AddressTaken } from "./error.ts";

/** Of the tenant's own accounts, and of all: whether those of others may keep an address is seen there. */
export type ProvisioningParts = { transact: Transact; accounts: Transact; mail: Mail };

/**
 * Runs a change of a user; once more if an account of another tenant has the address, has never proved it,
 * and gives it up to this tenant, which has proved the domain. @throws as `run`
 */
export const provisioned = async <T>(
  { transact, accounts, mail }: ProvisioningParts,
  tenantId: string,
  run: (work: Work) => Promise<T>,
): Promise<T> => {
  try {
    return await transact(run);
  } catch (error) {
    if (!(error instanceof AddressTaken)) throw error;
    const { email } = error;
    if (!(await accounts((work) => releaseUnproved(work, mail, { tenantId, email })))) throw error;
    return transact(run);
  }
};
