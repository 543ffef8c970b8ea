import { Migration } from "@mikro-orm/migrations";

/** Domains of single sign-on that are given up: of tenants that are gone, and whose record is. */
export class Migration20261129000301 extends Migration {
  override up(): void {
    this.addSql(
      `delete from sso_domains d using tenants t where t.id = d.tenant_id and t.deleted_at is not null`,
    );
    this.addSql(`alter table sso_domains add missing_since timestamptz(3)`);
  }

  override down(): void {
    this.addSql(`alter table sso_domains drop missing_since`);
  }
}
