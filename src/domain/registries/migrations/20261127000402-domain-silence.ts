import { Migration } from "@mikro-orm/migrations";

/** Since when the DNS servers of a custom domain have been silent. */
export class Migration20261127000402 extends Migration {
  override up(): void {
    this.addSql(`alter table custom_domains add column unknown_since timestamptz(3)`);
  }

  override down(): void {
    this.addSql(`alter table custom_domains drop column unknown_since`);
  }
}
