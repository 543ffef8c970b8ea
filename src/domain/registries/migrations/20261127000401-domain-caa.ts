import { Migration } from "@mikro-orm/migrations";

/** What CAA records say of custom domains. */
export class Migration20261127000401 extends Migration {
  override up(): void {
    this.addSql(`alter table custom_domains add column caa text not null default 'UNKNOWN'`);
  }

  override down(): void {
    this.addSql(`alter table custom_domains drop column caa`);
  }
}
