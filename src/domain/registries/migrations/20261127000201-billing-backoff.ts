import { Migration } from "@mikro-orm/migrations";

/** How often the payment provider did not know a customer, one time after another. */
export class Migration20261127000201 extends Migration {
  override up(): void {
    this.addSql(`alter table billing_customers add column unread integer not null default 0`);
  }

  override down(): void {
    this.addSql(`alter table billing_customers drop column unread`);
  }
}
