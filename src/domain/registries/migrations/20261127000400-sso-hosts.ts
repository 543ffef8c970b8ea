import { Migration } from "@mikro-orm/migrations";

/** Sign-ins end at the custom domain where they began; links in mails may lead to one. */
export class Migration20261127000400 extends Migration {
  override up(): void {
    this.addSql(`alter table sso_flows add column domain text`);
    this.addSql(`alter table tenants add column link_domain text`);
  }

  override down(): void {
    this.addSql(`alter table tenants drop column link_domain`);
    this.addSql(`alter table sso_flows drop column domain`);
  }
}
