/**
 * Build the screens: the modules of src/screens, compiled to lib/screens, and the libraries they use become one ES module,
 * onetool_ipy/ui/screens.js, which the notebook widget serves as it is. The panel is compiled from the same modules.
 */
const fs = require('fs');
const path = require('path');
const { rspack } = require('@rspack/core');

const PLACE = path.resolve('../onetool_ipy/ui');
const LIBRARIES = [
  ['MiniSearch', 'https://github.com/lucaong/minisearch', 'minisearch/LICENSE.txt'],
  ['Preact', 'https://github.com/preactjs/preact', 'preact/LICENSE'],
  ['its signals', 'https://github.com/preactjs/signals', '@preact/signals/LICENSE']
];
// All of them are under the same licence: the lines of who wrote them, and its text once.
const TEXTS = LIBRARIES.map(([, , file]) => fs.readFileSync(`node_modules/${file}`, 'utf8').trim());
const NAMES = LIBRARIES.map(([name, address], at) => `${name} (${address}), ${/^Copyright.*$/im.exec(TEXTS[at])[0]}`);
const [LICENSE] = TEXTS.map(text => text.slice(text.indexOf('Permission is hereby')));

const options = {
  mode: 'production',
  context: __dirname,
  entry: './lib/screens/widget.js',
  devtool: false,
  target: ['web', 'es2022'],
  output: { path: PLACE, filename: 'screens.js', library: { type: 'module' }, module: true },
  // Names made of paths would differ from checkout to checkout.
  optimization: { moduleIds: 'natural', chunkIds: 'natural', minimizer: [new rspack.SwcJsMinimizerRspackPlugin({ extractComments: false })] },
  plugins: [
    new rspack.BannerPlugin({
      banner: `/*! Built by \`make build-lab\` from labextension/src/screens. It contains\n\n${NAMES.join('\n')}\n\n${LICENSE}\n*/`,
      raw: true,
      stage: rspack.Compilation.PROCESS_ASSETS_STAGE_REPORT
    })
  ]
};

rspack(options, (error, stats) => {
  if (error || stats.hasErrors()) {
    console.error(error ?? stats.toString());
    process.exitCode = 1;
    return;
  }
  fs.copyFileSync(path.join(PLACE, 'style.css'), 'style/ui.css');
});
