// Lets Node load the screens as they are written: `./name.js` is name.ts or name.tsx where there is one, and its types are
// taken out on the way, as the compiler of the panel does.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(new URL('../../../labextension/package.json', import.meta.url));
const { default: ts } = await import(require.resolve('typescript'));
const { options } = ts.parseJsonConfigFileContent(
  ts.readConfigFile(require.resolve('./tsconfig.json'), ts.sys.readFile).config, ts.sys, new URL('.', `file://${require.resolve('./tsconfig.json')}`).pathname
);

export async function resolve(specifier, context, next) {
  if (/^\.{1,2}\/.*\.js$|^file:.*\.js$/.test(specifier)) {
    const url = new URL(specifier, context.parentURL);
    for (const ending of ['.tsx', '.ts']) {
      const source = url.href.replace(/\.js$/, ending);
      if (existsSync(fileURLToPath(source))) return { url: source, format: 'module', shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!/\.tsx?$/.test(url)) return next(url, context);
  const fileName = fileURLToPath(url);
  const { outputText } = ts.transpileModule(readFileSync(fileName, 'utf8'), { fileName, compilerOptions: options });
  return { format: 'module', source: outputText, shortCircuit: true };
}
