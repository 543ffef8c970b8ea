import { sql } from "kysely";
import type { Mail } from "../email/mail.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import type { Work } from "../../kernel/work.ts";

/** Days before the certificate of a custom domain expires at which its tenant is mailed, once each. */
export const NOTICE_DAYS = [1, 7, 14] as const;
const DAY_MS = 86_400_000;
/** A renewal that is not done after this time, in ms, fails: one failure may be mended by the next try. */
const OVERDUE_MS = 3_600_000;

const isoOf = (at: Date, ms = 0): string => new Date(at.getTime() + ms).toISOString();

type Row = {
  domain_id: string;
  tenant_id: string;
  domain: string;
  ssl_error: string | null;
  not_after: Date | string;
};

/** Records a notice; false if this one, or one of fewer days, was sent before. */
const isFirst = async ({ db }: Work, { domain_id: id, not_after: end }: Row, days: number) => {
  const { rows } = await sql`
    update custom_domain_certificates set notice_days = ${days}
    where domain_id = ${id}::uuid and not_after = ${isoOf(new Date(end))}::timestamptz
      and (notice_days is null or notice_days > ${days}) returning 1`.execute(db);
  return rows.length === 1;
};

/**
 * Mails the OWNERs and ADMINs of tenants that have a custom domain whose certificate expires in 14, 7 or 1
 * days, and whose renewal fails, or rests because DNS records are missing: once each, however often it runs.
 * A certificate that is renewed begins anew.
 */
export const tellOfFailingRenewals = async (work: Work, mail: Mail): Promise<void> => {
  const { db, serverNow: now } = work;
  const { rows } = await sql<Row>`
    select c.domain_id, d.tenant_id, d.domain, d.ssl_error, c.not_after
    from custom_domain_certificates c join custom_domains d on d.id = c.domain_id
      join tenants t on t.id = d.tenant_id
    where t.deleted_at is null and c.renew_at <= ${isoOf(now, -OVERDUE_MS)}::timestamptz
      and c.not_after > ${isoOf(now)}::timestamptz
      and c.not_after <= ${isoOf(now, NOTICE_DAYS.at(-1)! * DAY_MS)}::timestamptz
      and (d.status = 'ACTIVE' and d.ssl_error is not null or d.status = 'DEGRADED')
    order by c.domain_id`.execute(db);
  for (const row of rows) {
    const leftMs = new Date(row.not_after).getTime() - now.getTime();
    const days = NOTICE_DAYS.find((one) => leftMs <= one * DAY_MS);
    if (days === undefined || !(await isFirst(work, row, days))) continue;
    const error = row.ssl_error ?? "its DNS records are missing";
    const values = { domain: row.domain, expiresAt: isoOf(new Date(row.not_after)), error };
    await notifyAdmins(mail, work, row.tenant_id, { template: "domain-certificate-expiring", values });
  }
};

/** Why a renewal is overdue: CAA records of the tenant forbid it, or orders fail. */
export type OverdueCause = "caa" | "order";
/** `leftSeconds`: until the first of these certificates ends; below 0 after that. */
export type Overdue = { cause: OverdueCause; count: number; leftSeconds: number };

/** Returns how many certificates of domains that are served were to be renewed an hour ago, by cause. */
export const readOverdueRenewals = async ({ db, serverNow }: Work): Promise<Overdue[]> => {
  const { rows } = await sql<{ is_refused: boolean; count: number | string; first_end: Date | string }>`
    select d.caa = 'REFUSED' as is_refused, count(*) as count, min(c.not_after) as first_end
    from custom_domain_certificates c join custom_domains d on d.id = c.domain_id
    where d.status = 'ACTIVE' and c.renew_at <= ${isoOf(serverNow, -OVERDUE_MS)}::timestamptz
    group by 1`.execute(db);
  return rows.map(({ is_refused: isRefused, count, first_end: end }) => ({
    cause: isRefused ? "caa" : "order",
    count: Number(count),
    leftSeconds: (new Date(end).getTime() - serverNow.getTime()) / 1_000,
  }));
};
