/** Texts in many scripts, and those that have broken servers before. Each must come back letter by letter. */
export const awkwardStrings: readonly string[] = [
  "Grüße, Γειά σου, Привет, שלום, السلام عليكم, नमस्ते, 你好, こんにちは, 안녕하세요, สวัสดี, ሰላም, გამარჯობა",
  "🐦👩‍👩‍👧‍👦🏳️‍🌈👋🏽🇺🇳1️⃣",
  "é and é, Å and Å and Å", // composed and not
  "Z̷̧̛a̴̢͝l̶̨̛g̵̡̛o̸̢̕ ".repeat(40),
  "\u202Eright to left\u202C \u2066isolated\u2069 \u200Bzero\u200Dwidth\uFEFF",
  "\uFFFD \uFFFE \uFFFF \u{10FFFF} \u{E000} \u{1F9FF}",
  "line\u2028paragraph\u2029next\u0085line\r\nfeed\n\ttab\vvertical\fform",
  "\u0001\u0002\u001B[31mred\u001B[0m\u007F\u009F",
  "   leading and trailing   ",
  "\n\nempty lines around\n\n",
  "'; DROP TABLE messages; --",
  '" OR 1=1 # ` $(reboot) `reboot` | & ; < > ${7*7} {{7*7}} %s %n %x',
  "<script>alert('x')</script><img src=x onerror=alert(1)>&lt;&amp;&quot;",
  "\\ \\\\ \\n \\u0000 \\ud800 \\x00 /* */ // ",
  '{"op":0,"t":"READY","s":1,"d":{}}',
  '["b"] "],"d":{"x":"',
  "__proto__ constructor toString hasOwnProperty null undefined NaN true",
  "%00 %2e%2e%2f ../../etc/passwd \\\\server\\share C:\\con file:///etc/passwd",
  "http://[::1]:99999/%zz?a=b&c=d#e",
  "0 -1 1e309 0x10 9223372036854775808 1,000.00 ٣ ۴ Ⅳ ½",
  "ﷺ ㍿ ﬀ ſ ß İ ı Ω K ǆ",
  "<@1> <@&1> <#1> @everyone @here :smile: <:x:1>",
  "\u1160\u3164x\u2800", // letters that show nothing
  "x".repeat(4000),
  "🐦".repeat(4000),
]
